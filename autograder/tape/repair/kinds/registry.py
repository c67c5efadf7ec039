"""All kinds of repair, in order of preference. A kind's docstring says what it changes, in code before and after."""

from autograder.tape.repair.broken_program import Kind
from autograder.tape.repair.kinds import (
    aliases,
    autograd_functions,
    both_losses,
    carried_state,
    clones,
    containers,
    leaves,
    order,
    out_of_place,
    sharing,
    stacking,
)

# What may repair an optimizer's step that comes between a forward pass and its backward: tried first where a step is to blame.
AROUND_A_STEP: tuple[Kind, ...] = (
    carried_state.detach_state,
    sharing.detach_shared,
    both_losses.both_losses_first,
    order.repeat_forward,
    order.repeat_forward_each_time,
    order.move_write_later,
)

KINDS: tuple[Kind, ...] = (
    out_of_place.expand_augmented_assignment,
    out_of_place.rebind_item,
    out_of_place.call_without_underscore,
    out_of_place.rebind_filled,
    out_of_place.rebind_masked,
    out_of_place.rebind_result,
    out_of_place.switch_off_inplace,
    containers.rebuild_list,
    leaves.write_under_no_grad,
    autograd_functions.mark_dirty,
    autograd_functions.return_from_hook,
    clones.clone_operand,
    clones.clone_result,
    aliases.copy_alias,
    clones.clone_view,
    clones.clone_target,
    clones.clone_base,
    clones.clone_argument,
    clones.separate_views,
    autograd_functions.save_for_backward,
    autograd_functions.save_copy,
    leaves.clone_gradient,
    leaves.drop_gradient,
    aliases.write_tracked,
    aliases.keep_attached,
    aliases.require_grad_earlier,
    aliases.remove_no_grad,
    aliases.replace_inference_mode,
    aliases.detach_for_numpy,
    stacking.stack_rows,
    leaves.write_into_copy,
    *AROUND_A_STEP,
    leaves.retain_graph,
    leaves.sum_before_backward,
    order.move_write_earlier,
)
