"""What is shipped to be installed beside the program: held to the code."""
