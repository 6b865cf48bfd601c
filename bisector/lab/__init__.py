"""A machine becomes ready: SSH, jobs, boot, proof of the kernel, the embedded QEMU machine."""
