"""Runtimes for CPUs: a network as a graph for OpenVINO, or as an ONNX file, tried out first."""
