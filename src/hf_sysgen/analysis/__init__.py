"""Analyses and plots of the papers, from records, checkpoints and examples."""

# defaults of analyses, here because the command line shows them before it imports an analysis
# early-stopping: steps without a better loss, after which Kim & Linzen 2020 stop: 5 evaluations, 500 steps apart
PATIENCE = 2500
# loss-accuracy: the first evaluation shown (plot_loss_accuracy.py:54-59 of Csordas et al.)
FIRST_STEP = 1000
# convergence: share of the best accuracy (Csordas et al. 2021, Figure 6)
SHARE = 0.8
