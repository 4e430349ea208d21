"""The built-in rules by the names under which scripts ask for them, with what each needs saved."""

from dataclasses import dataclass
from typing import Any

from trackside.sdk.debugger import CollectionConfig, Rule

SAVE_INTERVAL = 500


@dataclass(frozen=True, slots=True)
class _BuiltIn:
    """Called with the rule's parameters, gives the rule."""

    name: str
    collection: str = ""
    include_regex: str = ""

    def __call__(self, **parameters: Any) -> Rule:
        if not self.collection:
            return Rule(self.name, self.name, parameters)
        saved: dict[str, Any] = {"save_interval": SAVE_INTERVAL}
        if self.include_regex:
            saved = {"include_regex": self.include_regex, **saved}
        return Rule(self.name, self.name, parameters, [CollectionConfig(self.collection, saved)])


vanishing_gradient = _BuiltIn("VanishingGradient", "gradients")
exploding_tensor = _BuiltIn("ExplodingTensor")
weight_update_ratio = _BuiltIn("WeightUpdateRatio", "weights")
all_zero = _BuiltIn("AllZero")
unchanged_tensor = _BuiltIn("UnchangedTensor")
loss_not_decreasing = _BuiltIn("LossNotDecreasing", "losses")
tensor_variance = _BuiltIn("TensorVariance")
similar_across_runs = _BuiltIn("SimilarAcrossRuns")
stalled_training_rule = _BuiltIn("StalledTrainingRule")
overfit = _BuiltIn("Overfit")
overtraining = _BuiltIn("Overtraining")
class_imbalance = _BuiltIn("ClassImbalance")
confusion = _BuiltIn("Confusion")
dead_relu = _BuiltIn("DeadRelu", "relu_output", ".*relu_output")
saturated_activation = _BuiltIn("SaturatedActivation")
poor_weight_initialization = _BuiltIn("PoorWeightInitialization", "relu_input", ".*relu_input")
check_input_images = _BuiltIn("CheckInputImages", "input_image", ".*hybridsequential0_input_0")
nlp_sequence_ratio = _BuiltIn("NLPSequenceRatio", "input_sequence", ".*embedding0_input_0")
