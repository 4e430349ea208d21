# a model that a laptop trains in a second
out_dir = "out-nanogpt"
eval_interval = 5
n_embd = 16
