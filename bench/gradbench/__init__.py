"""The twelve programs of GradBench, written with chainrule, and what times them beside others.

GradBench (github.com/gradbench/gradbench) is a public suite of problems for automatic
differentiation. Each module here is one of its evals under the suite's name for it: the
mathematics as a user of chainrule would write it, inputs drawn by the suite's recipe, and what
goes over the suite's wire. `python -m bench.gradbench` validates and times; `bench.gradbench.tool`
speaks the suite's protocol, so the suite's own scripts can judge these programs.
"""
