"""The parts of tools/bench: whole-model speed beside llama.cpp's and PyTorch's, in interleaved pairs."""
