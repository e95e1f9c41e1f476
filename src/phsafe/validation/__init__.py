"""What validation says. The rules themselves are a step of the kernel: `phsafe.counting.rules`."""
