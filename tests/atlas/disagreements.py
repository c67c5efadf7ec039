"""Explanations of operations for which backward raises after a write to a tensor that it does not read, or reads a tensor without raising.

The reasons come from PyTorch's derivative formulas (tools/autograd/derivatives.yaml of 2.13.0 and 2.15.0, which are
part of the package `torchgen`) and match the observations. An operation without a reason here is reported as such.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

SHAPE = "PyTorch's formula passes the whole tensor where it needs only its shape or dtype"
ZERO = "the gradient is zero everywhere, but PyTorch's formula names the tensor all the same"
OTHER_RESULT = (
    "backward computes with another result that was saved; this one serves shapes, higher derivatives and special cases"
)
FACTORS = "backward computes with the factors that were saved; the matrix serves higher derivatives and singular cases"
SUMS = "one formula serves all reductions; a sum or a mean needs indices alone"
UNREAD = {
    SHAPE: (
        "combinations cummax cummin stft masked_select gather take take_along_dim index_copy index_add put nll_loss to_sparse "
        "fft.fft fft.ifft fft.rfft fft.rfft2 fft.rfftn fft.ihfft fft.ihfft2 fft.ihfftn pad interpolate "
        "avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d max_pool1d max_pool2d "
        "max_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d fractional_max_pool2d fractional_max_pool3d "
        "sparse.mm sparse.sampled_addmm"
    ),
    ZERO: "div nextafter",
    OTHER_RESULT: "cholesky_solve linalg.lstsq ormqr triangular_solve linalg.eigvals linalg.eigvalsh linalg.svdvals",
    FACTORS: "linalg.det linalg.slogdet logdet linalg.solve linalg.solve_ex linalg.tensorsolve",
    SUMS: "index_reduce scatter_reduce",
    "its argument is called `real` or `imag`, and so is the function of its formula, which PyTorch takes for the argument": "complex",
    "one function computes all of its gradients and is given all tensors, also those that only say which are wanted": (
        "native_layer_norm layer_norm native_dropout_backward _softmax_backward_data"
    ),
    "in training, backward uses the mean and variance of the batch, but is given the running ones too": (
        "_batch_norm_with_update"
    ),
    "backward uses the bags that forward counted from it": "embedding_bag",
}
UNGUARDED = {
    "kron": "inside, torch.kron takes its arguments as unsafe views, which have counters of their own: PyTorch counts the write elsewhere"
}
WHICHEVER = "PyTorch saves it whichever of the arguments requires grad"
UNKNOWN = "why is not known here"


def notes_on(key: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return a sentence for each tensor for which the two observations differ.

    Args:
        key: name and form, such as "max (binary)".
        rows: the tensors that the operation keeps.
    """
    name = key.partition(" (")[0]
    read = {row["what"] for row in rows if row["read"]}
    notes = [
        f"{what}: guarded, but its values were not read: {_reason(name)}." for what in _whats(rows) if what not in read
    ]
    for row in rows:
        if row["what"] in read and not row["read"]:
            notes.append(
                f"{row['what']}, for the gradient of {', '.join(row['for'])}: guarded, but not read: {WHICHEVER}."
            )
    silent = _whats([row for row in rows if not row["guarded"]])
    return notes + [f"{what}: a write goes unnoticed: {UNGUARDED.get(name, UNKNOWN)}." for what in silent]


def _whats(rows: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row["what"] for row in rows))


def _reason(name: str) -> str:
    short = name.removeprefix("nn.functional.")
    return next((reason for reason, names in UNREAD.items() if {name, short} & set(names.split())), UNKNOWN)
