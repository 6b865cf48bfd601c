#define PAGE_SHIFT 12
int fault(int address);
int map(int length);
