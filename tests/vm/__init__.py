"""The program on real RDMA devices and under a real systemd, in a virtual machine: docs/adr/0042."""
