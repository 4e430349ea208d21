"""What known messages of PyTorch mean, where the message alone says enough: a pattern, a sentence
with the pattern's groups in it, and what to change."""

PLAIN: tuple[tuple[str, str, str], ...] = (
    (
        r"Missing key\(s\) in state_dict: \"(?P<missing>[^\"]+)\"(?s:.)*"
        r"Unexpected key\(s\) in state_dict: \"(?P<prefix>module\.|_orig_mod\.)",
        "The file that is loaded names its parameters {prefix}NAME, and the model has no such "
        "prefix",
        "It was saved from a wrapped model (DataParallel, DistributedDataParallel or compile): "
        'take the prefix off, {{k.removeprefix("{prefix}"): v for k, v in state.items()}}, or save '
        "the state of the model inside the wrapper.",
    ),
    (
        r"Missing key\(s\) in state_dict: \"(?P<prefix>module\.|_orig_mod\.)",
        "The model names its parameters {prefix}NAME, and the file that is loaded has no such "
        "prefix",
        "Load the file before the model is wrapped, or into the model inside the wrapper.",
    ),
    (
        r"size mismatch for (?P<name>[\w.]+): copying a param with shape "
        r"torch\.Size\((?P<saved>\[[\d, ]*\])\) from checkpoint, the shape in current model is "
        r"torch\.Size\((?P<model>\[[\d, ]*\])\)",
        "{name} has shape {model} in the model and {saved} in the file that is loaded",
        "Build the model with the settings of the one that was saved (classes, width, vocabulary), "
        "or leave this layer out of the state and train it anew.",
    ),
    (
        r"Missing key\(s\) in state_dict: \"(?P<missing>[^\"]+)\"",
        "The file that is loaded lacks parameters of the model, {missing} among them",
        "Compare the names of both: the model was changed since it was saved, or the state is one "
        "level deeper, as in checkpoint['model']. strict=False would hide it.",
    ),
    (
        r"Unexpected key\(s\) in state_dict: \"(?P<name>[^\"]+)\"",
        "The file that is loaded has parameters that the model lacks, {name} among them",
        "Compare the names of both: the model was changed since it was saved, or the whole "
        "checkpoint was given in place of its part, as in checkpoint['model'].",
    ),
    (
        r"loaded state dict (?:contains a parameter group that doesn't match the size|has a "
        r"different number of parameter groups)",
        "The optimizer's state that is loaded belongs to other parameters than this optimizer has",
        "Make the optimizer as it was when the state was saved, with the same parameters frozen "
        "and the same groups, before load_state_dict().",
    ),
    (
        r"Weights only load failed",
        "The checkpoint holds other objects than tensors, and torch.load refuses them by default",
        "Save plain values (vars(args), float(loss)), or load a file that you trust with "
        "weights_only=False.",
    ),
    (
        r"param 'initial_lr' is not specified in param_groups\[0\] when resuming",
        "A scheduler is made with last_epoch for an optimizer that has no earlier state",
        "Load the optimizer's state before the scheduler is made, or make the scheduler without "
        "last_epoch and load its own state.",
    ),
    (
        r"optimizer got an empty parameter list",
        "The optimizer gets no parameters",
        "The filter lets none through (all are frozen, or no name fits), the generator was used up "
        "before, or layers are kept in a plain list: use nn.ModuleList.",
    ),
    (
        r"Expected hidden(?:\[\d\])? size \((?P<expected>[\d, ]+)\), got \[(?P<given>[\d, ]+)\]",
        "A recurrent layer expects a state of shape ({expected}) for this batch and gets ({given})",
        "Make the state for the batch at hand, x.size(0), not for the configured batch size: the "
        "last batch of an epoch is smaller (or drop_last=True); check batch_first, too.",
    ),
    (
        r"shape '(?P<shape>\[[-\d, ]+\])' is invalid for input of size (?P<size>\d+)",
        "{size} values are viewed as shape {shape}, which holds another number of them",
        "Take the sizes from the tensor itself (x.size(0)) instead of configured ones: the last "
        "batch of an epoch is smaller, and images or sequences may have other sizes.",
    ),
    (
        r"view size is not compatible with input tensor's size and stride",
        "A tensor is viewed whose values do not lie one after another in memory",
        "Use reshape() instead of view(); check that the axes are in the order that you mean.",
    ),
    (
        r"Expected parameter (?P<name>\w+) \(Tensor of shape [^)]*\)+ of distribution "
        r"(?P<kind>\w+)\((?s:.)*found invalid values:(?s:.)*nan",
        "The {name} of a {kind} distribution are NaN: the network's output is no longer finite",
        "The update before this has broken the weights, or an observation is not finite: lower "
        "the learning rate, clip gradients, and check advantages that are divided by a deviation "
        "of 0.",
    ),
    (
        r"Expected parameter (?P<name>\w+) \(Tensor of shape [^)]*\)+ of distribution "
        r"(?P<kind>\w+)\(",
        "The {name} of a {kind} distribution has a value that is not allowed",
        "Bring the network's output into the range: softplus or exp for a scale, logits= for raw "
        "scores.",
    ),
    (
        r"probability tensor contains either `inf`, `nan` or element < 0",
        "Probabilities that are drawn from are negative or not finite",
        "Apply a softmax before; if there is one, its input is no longer finite: lower the "
        "learning rate, and look for a division by 0 or by a temperature of 0.",
    ),
    (
        r"Sizes of tensors must match except in dimension (?P<axis>\d+)\. Expected size "
        r"(?P<expected>\d+) but got size (?P<given>\d+)",
        "Tensors that are concatenated along axis {axis} have {expected} and {given} elements "
        "along another axis",
        "Compare the shapes of both before this line; sizes that are odd differ after pooling and "
        "upsampling.",
    ),
    (
        r"The expanded size of the tensor \((?P<expected>\d+)\) must match the existing size "
        r"\((?P<given>\d+)\) at non-singleton dimension (?P<axis>\d+)",
        "A tensor of {given} elements along axis {axis} is put where {expected} are expected",
        "Compare both shapes; a size that differs only in the last batch comes from an incomplete "
        "batch (drop_last=True), and positions may be fewer than the longest sequence.",
    ),
    (
        r"a leaf Variable that requires grad is being used in an in-place operation",
        "A parameter is changed in place while gradients are recorded",
        "Change weights inside torch.no_grad(), as an average or an initialisation does.",
    ),
    (
        r"Can't call numpy\(\) on Tensor that requires grad",
        "A tensor of the graph is converted to numpy",
        "For a metric use x.detach().numpy(); what the loss needs must stay in torch.",
    ),
    (
        r"Expected \dD \(unbatched\) or (?P<axes>\d)D \(batched\) input to (?P<layer>\w+), but got "
        r"input of size: (?P<shape>\[[\d, ]+\])",
        "{layer} expects {axes} axes (batch, channels, …) and gets an input of shape {shape}",
        "Add the missing axis: unsqueeze(1) for the channel of grey images.",
    ),
    (
        r"Kernel size: (?P<kernel>\([\d x]+\))\. Kernel size can't be greater than actual input",
        "An image has become smaller than the kernel of {kernel}",
        "Use larger images, padding, or fewer layers with a stride or pooling.",
    ),
    (
        r"Output size is too small",
        "An image has become too small for another pooling",
        "Use larger images, or fewer layers with a stride or pooling.",
    ),
    (
        r"num_samples should be a positive integer value, but got num_samples=0",
        "The data set is empty",
        "Check the path, the pattern of the file names and the filter; in a job, data is in the "
        "folders of its channels.",
    ),
    (
        r"Expected floating point type for target with class probabilities, got (?P<given>\w+)",
        "The loss over classes gets targets of the shape of its scores, of type {given}",
        "One-hot targets need .float(); class numbers need no axis for the classes (argmax(1)).",
    ),
    (
        r"Expected target size \[(?P<expected>[\d, ]+)\], got \[(?P<given>[\d, ]+)\]",
        "The loss over classes expects targets of shape [{expected}] and gets [{given}]",
        "The classes must be axis 1 of the scores: logits.transpose(1, 2), or flatten both: "
        "logits.reshape(-1, classes) and targets.reshape(-1).",
    ),
    (
        r"Class values must be smaller than num_classes",
        "A label is larger than the number of classes of one_hot",
        "Number the classes from 0, and give num_classes the largest label + 1.",
    ),
    (
        r"index (?P<index>-?\d+) is out of bounds for dimension (?P<axis>\d+) with size "
        r"(?P<size>\d+)",
        "Index {index} is used on an axis of {size} elements",
        "Indices go from 0 to the size - 1: compare labels, actions, positions or time steps with "
        "the tensor that they select from.",
    ),
    (
        r"found <class 'NoneType'>",
        "A sample of the data set is None",
        "__getitem__ returns nothing for some samples (an unreadable file?): filter them before, "
        "or in a collate_fn.",
    ),
    (
        r"each element in list of batch should be of equal size",
        "Samples of a batch hold lists of different lengths",
        "Pad them in a collate_fn (torch.nn.utils.rnn.pad_sequence), or give back tensors.",
    ),
    (
        r"embed_dim must be divisible by num_heads",
        "The width of an attention layer is no multiple of its heads",
        "Choose a width that the number of heads divides.",
    ),
    (
        r"The shape of the 2D attn_mask is torch\.Size\((?P<given>\[[\d, ]+\])\), but should be "
        r"(?P<expected>\([\d, ]+\))",
        "The attention mask has shape {given}, and {expected} is needed",
        "Make the mask for the length of this batch; check batch_first: batch and time may be "
        "swapped.",
    ),
    (
        r"running_mean should contain (?P<given>\d+) elements not (?P<expected>\d+)",
        "Batch normalization for {expected} channels gets {given}",
        "Give it the number of channels of the layer before; channels must be axis 1.",
    ),
    (
        r"Expected size for first two dimensions of batch2 tensor to be: \[(?P<expected>[\d, ]+)\] "
        r"but got: \[(?P<given>[\d, ]+)\]",
        "A product of batches needs a second factor of shape [{expected}, …] and gets [{given}, …]",
        "Transpose the last two axes of one factor, or compare the lengths of queries and keys.",
    ),
    (
        r"Tried to step (?P<steps>\d+) times\. The specified number of total steps is "
        r"(?P<total>\d+)",
        "The scheduler is stepped more often ({steps} times) than its total of {total} steps",
        "Give it the number of all steps (epochs * len(loader)), count those of a resumed run too, "
        "or step it per epoch.",
    ),
    (
        r"ReduceLROnPlateau\.step\(\) missing 1 required positional argument",
        "ReduceLROnPlateau is stepped without the value that it watches",
        "Call scheduler.step(validation_loss), once after each evaluation.",
    ),
    (
        r"unscale_\(\) has already been called on this optimizer since the last update",
        "Gradients are unscaled twice before one update",
        "Call scaler.unscale_(optimizer) only before the step, not in every micro-batch, and "
        "scaler.update() after it.",
    ),
    (
        r"No inf checks were recorded for this optimizer",
        "The GradScaler steps an optimizer whose parameters have no gradients",
        "The optimizer holds other parameters than the loss trains, or backward() was not called "
        "on scaler.scale(loss).",
    ),
    (
        r"(?:`lengths` array must be sorted in decreasing order|Length of all samples has to be "
        r"greater than 0)",
        "The lengths of a packed batch are unsorted or 0",
        "Give pack_padded_sequence enforce_sorted=False, and leave empty samples out.",
    ),
    (
        r"Using a target size \(torch\.Size\((?P<target>\[[\d, ]*\])\)\) that is different to the "
        r"input size \(torch\.Size\((?P<given>\[[\d, ]*\])\)\)",
        "The loss gets predictions of shape {given} and targets of shape {target}",
        "Give both the same shape: squeeze(1) for predictions, or unsqueeze(1) for targets.",
    ),
    (
        r"The total norm of order [\d.]+ for gradients from `parameters` is non-finite",
        "Gradients are NaN or infinite when they are clipped",
        "Look for the first value that is not finite: an input, a log or a division by 0, or a "
        "learning rate that is too high. With float16, unscale first.",
    ),
    (
        r"appears to not have been used in the graph",
        "A gradient is asked for a tensor that the loss does not depend on",
        "Use that tensor itself in the forward pass, not a copy or a detached one.",
    ),
    (
        r"weight tensor should be defined either for all (?P<classes>\d+) classes or no classes "
        r"but got weight tensor of shape: \[(?P<given>\d+)\]",
        "The loss has {given} class weights for {classes} classes",
        "Give one weight for each output, in the order of the class numbers (bincount with "
        "minlength).",
    ),
    (
        r"Expected to have finished reduction in the prior iteration before starting a new one",
        "Some parameters took no part in the loss, and DistributedDataParallel waits for them",
        "Leave unused layers out of the model, freeze them before it is wrapped, or wrap it with "
        "find_unused_parameters=True.",
    ),
    (
        r"Expected to mark a variable ready only once",
        "A parameter is used in two passes of one update, which DistributedDataParallel does not "
        "allow",
        "Run the model once for each backward(); with checkpointed layers, use "
        "use_reentrant=False or static_graph=True.",
    ),
    (
        r"AttributeError: 'DistributedDataParallel' object has no attribute '(?P<name>\w+)'|"
        r"'DistributedDataParallel' object has no attribute '(?P<other>\w+)'",
        "An attribute of the model is asked of the DistributedDataParallel around it",
        "Use model.module for attributes and the state; call the wrapper itself for training.",
    ),
    (
        r"Can't (?:pickle|get) local object '(?P<name>[^']+)'",
        "A function within a function or a lambda cannot be sent to another process",
        "Define it at the top of a module: spawned processes and workers of a loader import it.",
    ),
    (
        r"Boolean value of Tensor with more than one value is ambiguous",
        "A tensor of several values is used as a condition",
        "Reduce it first, by .any(), .all() or .item(); loss(x) for a loss class: "
        "nn.MSELoss()(x, y), not nn.MSELoss(x, y).",
    ),
)
