"""Photos and patches for training and evaluation.

`public/` has the published sets: what they consist of (`registry`), downloads and checks.
`labelled/` reads photos with labels, as retrieval networks are trained on; `patches/` patches.
"""
