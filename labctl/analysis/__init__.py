"""What a run lets one say: from samples and facts to statements about kernels and guests."""
