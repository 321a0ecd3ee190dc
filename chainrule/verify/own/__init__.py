"""Subjects made of what chainrule has: functions of tensors, `Function`s, ops, modules."""
