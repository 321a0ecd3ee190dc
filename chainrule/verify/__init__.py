"""Verify gradients: which backward is wrong, where, what the mistake is called, its correction."""

from chainrule.verify.faces import assert_gradients as assert_gradients
from chainrule.verify.faces import check as check
from chainrule.verify.faces import pair as pair
