AIM Independent Resource Benchmark - Suite IX
Machine: m
Configuration: c
Test date: d
Time: 60
creat-clo	152474	File Creations and Closes per second
page_test	192751	System Allocations & Pages per second
