int uptime(void)
{
#ifdef CONFIG_IPV6
	return 6;
#else
	return 4;
#endif
}
