"""The tests: a folder for each part of the package, `project` for what checks the project itself,
`public` for what holds for every public name. Modules are imported as `tests.folder.module`.
"""
