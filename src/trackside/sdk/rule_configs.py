"""The built-in rules by SageMaker's names, and the actions of rules.

Called with a rule's parameters, each returns the rule:
`rule_configs.dead_relu(threshold_layer=80)`.
"""

from functools import partial

from trackside.sdk.actions import SMS as SMS
from trackside.sdk.actions import ActionList as ActionList
from trackside.sdk.actions import Command as Command
from trackside.sdk.actions import Email as Email
from trackside.sdk.actions import SaveFlightRecorder as SaveFlightRecorder
from trackside.sdk.actions import StopTraining as StopTraining
from trackside.sdk.actions import Webhook as Webhook
from trackside.sdk.rule import built_in as _tensors
from trackside.sdk.rule import built_in_profiler as _machine

vanishing_gradient = partial(_tensors, "VanishingGradient")
exploding_tensor = partial(_tensors, "ExplodingTensor")
weight_update_ratio = partial(_tensors, "WeightUpdateRatio")
all_zero = partial(_tensors, "AllZero")
unchanged_tensor = partial(_tensors, "UnchangedTensor")
loss_not_decreasing = partial(_tensors, "LossNotDecreasing")
tensor_variance = partial(_tensors, "TensorVariance")
similar_across_runs = partial(_tensors, "SimilarAcrossRuns")
stalled_training_rule = partial(_tensors, "StalledTrainingRule")
overfit = partial(_tensors, "Overfit")
overtraining = partial(_tensors, "Overtraining")
class_imbalance = partial(_tensors, "ClassImbalance")
confusion = partial(_tensors, "Confusion")
dead_relu = partial(_tensors, "DeadRelu")
saturated_activation = partial(_tensors, "SaturatedActivation")
poor_weight_initialization = partial(_tensors, "PoorWeightInitialization")
check_input_images = partial(_tensors, "CheckInputImages")
nlp_sequence_ratio = partial(_tensors, "NLPSequenceRatio")
feature_importance_overweight = partial(_tensors, "FeatureImportanceOverweight")
tree_depth = partial(_tensors, "TreeDepth")
create_xgboost_report = partial(_tensors, "CreateXgboostReport")

BatchSize = partial(_machine, "BatchSize")
CPUBottleneck = partial(_machine, "CPUBottleneck")
Dataloader = partial(_machine, "Dataloader")
GPUMemoryIncrease = partial(_machine, "GPUMemoryIncrease")
IOBottleneck = partial(_machine, "IOBottleneck")
LoadBalancing = partial(_machine, "LoadBalancing")
LowGPUUtilization = partial(_machine, "LowGPUUtilization")
MaxInitializationTime = partial(_machine, "MaxInitializationTime")
OverallFrameworkMetrics = partial(_machine, "OverallFrameworkMetrics")
OverallSystemUsage = partial(_machine, "OverallSystemUsage")
ProfilerReport = partial(_machine, "ProfilerReport")
StepOutlier = partial(_machine, "StepOutlier")
