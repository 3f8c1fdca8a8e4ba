"""Analyses and plots of the papers, from records, checkpoints and examples."""

from hf_sysgen.errors import UserError


class AnalysisError(UserError):
    """Records, a checkpoint or an example lack what an analysis or a plot needs, or its file cannot be written."""
