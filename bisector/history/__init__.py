"""The commits: names to ids, ranges to graphs, work trees, bisect logs. The only importer of GitPython."""
