"""Who may ask the daemon: TLS, client certificates, passwords."""
