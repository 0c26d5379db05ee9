"""The program on real RDMA devices, in a virtual machine: see README.md in this folder."""
