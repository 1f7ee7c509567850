"""Sweeps: plan (pure) -> journal (append-only) <- runner; then aggregate."""
