"""What is deployed."""
