"""The commits: names to ids, range to graph, work trees, bisect log. The only room that imports GitPython."""
