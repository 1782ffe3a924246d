"""Distillation: a small network learns from larger ones."""
