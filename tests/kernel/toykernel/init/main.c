#include <linux/mm.h>

void start(void)
{
	fault(map(1));
	for (;;)
		;
}
