"""The kernel language: `nki`, `nki.language`, `nki.isa`, implemented so that public kernels run.

Files in the order data passes through them: `geometry` and `tensor` (views), `recorder` (the
program being recorded), `enums` and `operands` (what calls take), `instructions`, `isa`, `tiles`
and `language` (what kernels call), `regions` (names they need not import), `legacy` (the older
form, `neuronxcc.nki`), `jit` (running and tracing a kernel), `install` (making `import nki` resolve
here), `load` (kernel files by path).
"""
