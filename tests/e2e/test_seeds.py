"""Five public texts about training on SageMaker, statement by statement, in their order.

Each row of a table is a statement or command as it stands there, with what it must give. What a
text leaves to its reader (a model, data, a role, the folder of the source) stands in rows marked as
ours; its slips of the pen (a missing comma, `Pytorch`) are corrected. What is not run as written is
named at the end, with the reason; of what is not offered yet, the refusal of today is tested.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client_shell import HURRIED, ClientShell, client_shell
from tests.clients.test_whole_buckets import typed
from tests.curves.test_tensorboard import started
from tests.e2e.conftest import Machine
from tests.e2e.statements import Row, as_cells, as_script, assert_each, given_in
from tests.e2e.test_capture import NAMES, NET, TRAIN
from tests.wait import until
from trackside.records.status import Status

pytestmark = pytest.mark.timeout(600)
LOSSES = [f"CrossEntropyLoss_{part}" for part in ("input_0", "input_1", "output_0")]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[ClientShell]:
    with client_shell(tmp_path, "--region", "us-west-2") as shell:
        yield shell


# Using TensorBoard in a SageMaker PyTorch training job: the notebook, then the script.

NOTEBOOK_000 = [
    Row(HURRIED),  # ours
    Row(  # ours
        "import functools, boto3, sagemaker.pytorch\n"
        "s3 = boto3.client('s3')\n"
        "for bucket in ('input-data-bucket', 'output-data-bucket', 'path'):\n"
        "    s3.create_bucket(Bucket=bucket)\n"
        "s3.put_object(Bucket='input-data-bucket', Key='train/a.txt', Body=b'a')\n"
        "s3.put_object(Bucket='input-data-bucket', Key='val/b.txt', Body=b'b')\n"
        "role = 'SageMakerRole'\n"
        "train_instance_type = 'ml.p2.xlarge'\n"
        "PyTorch = functools.partial(sagemaker.pytorch.PyTorch, role=role, source_dir='code',\n"
        "                            framework_version='1.3.1', py_version='py3')\n"
        "def status():\n"
        "    return estimator.latest_training_job.describe()['TrainingJobStatus']\n"
        "def below(bucket):\n"
        "    listed = s3.list_objects_v2(Bucket=bucket).get('Contents', [])\n"
        "    name = estimator.latest_training_job.name\n"
        "    return [each['Key'].replace(name, 'JOB') for each in listed if name in each['Key']]"
    ),
    Row(
        "estimator = PyTorch(entry_point='train.py',\n"
        "                    output_path='s3://output-data-bucket/model/',\n"
        "                    train_instance_count=1,\n"
        "                    train_instance_type='ml.p2.xlarge',\n"
        "                   )"
    ),
    Row(
        "estimator.fit(inputs={'training': 's3://input-data-bucket/train/',\n"
        "                      'val': 's3://input-data-bucket/val/'})",
        "[status(), 'model/JOB/output/model.tar.gz' in below('output-data-bucket')]",
        ["Completed", True],
    ),
    Row("from sagemaker.debugger import TensorBoardOutputConfig"),
    Row(
        "tensorboard_output_config = TensorBoardOutputConfig(\n"
        "    s3_output_path='s3://path/for/tensorboard/data/emission',\n"
        "    container_local_output_path='/local/path/for/tensorboard/data/emission'\n"
        ")"
    ),
    Row("Pytorch = functools.partial(PyTorch, entry_point='train.py')"),  # ours
    Row(
        "estimator = Pytorch(\n"
        "    role=role,\n"
        "    train_instance_count=1,\n"
        "    train_instance_type=train_instance_type,\n"
        "    tensorboard_output_config=tensorboard_output_config\n"
        ")"
    ),
    Row(  # ours: the text only says that the job is run
        "estimator.fit(inputs={'training': 's3://input-data-bucket/train/',\n"
        "                      'val': 's3://input-data-bucket/val/'})",
        "[status(), {key.rpartition('/')[0] for key in below('path')} >= {\n"
        "    'for/tensorboard/data/emission/JOB/tensorboard-output'}]",
        ["Completed", True],
    ),
]

SCRIPT_000 = [
    Row("import os, sys"),  # ours
    Row("", "os.listdir('/opt/ml/input/data/training')", ["a.txt"]),
    Row("", "os.listdir('/opt/ml/input/data/val')", ["b.txt"]),
    Row("open('/opt/ml/model/weights', 'w').write('w')"),  # ours: "write all final artifacts to"
    Row("import torch\nfrom torch.utils.tensorboard import SummaryWriter"),
    Row("writer = SummaryWriter('/opt/ml/output/tensorboard/')"),
    Row("nr_epochs, loss = [1, 2, 3], torch.tensor(0.5)"),  # ours
    Row(
        "# in your training loop\n"
        "for epoch in range(len(nr_epochs)):\n"
        "    # ...\n"
        "    writer.add_scalar('training loss', loss.item(), epoch)"
    ),
    Row("writer.close()", "sorted(os.listdir('.'))", ["requirements.txt", "train.py"]),  # ours
]

COMMAND_000_AND_001 = (
    "F_CPP_MIN_LOG_LEVEL=3 AWS_REGION=YOUR-AWS-REGION tensorboard --logdir s3://{location}"
)


def test_seeds_000_and_001(shell: ClientShell):
    code = shell.folder / "code"
    code.mkdir()
    (code / "train.py").write_text(as_script(SCRIPT_000))
    (code / "requirements.txt").write_text("tensorboard\n")
    shown, given = shell.python(as_cells(NOTEBOOK_000), sdk=1)
    assert_each(NOTEBOOK_000, given)
    for log in shown.split("Invoking user script")[1:3]:
        assert_each(SCRIPT_000, given_in(log, SCRIPT_000))
    with typed(shell, COMMAND_000_AND_001.format(location="path")) as page:
        run = "for/tensorboard/data/emission/{}/tensorboard-output"
        until(lambda: len(page.runs()) > 0, seconds=120)
        [name] = {each.split("/")[4] for each in page.runs()}
        until(lambda: page.steps(run.format(name), "training loss") == [0, 1, 2], seconds=120)


# Using Debugger with your own PyTorch container: the script, then the notebook.

SCRIPT_002 = [
    Row(NET),  # ours
    Row("import smdebug.pytorch as smd"),
    Row(
        "def create_smdebug_hook():\n"
        "    # This allows you to create the hook from the configuration\n"
        "    hook = smd.Hook.create_from_json_file()\n"
        "    return hook"
    ),
    Row("hook = create_smdebug_hook()"),  # ours
    Row("hook.register_hook(model)", "hook.has_registered_module", True),
    Row("hook.register_loss(criterion)", "hook.has_registered_loss_module", True),
    Row(TRAIN),  # ours
]

NOTEBOOK_002 = [
    Row(
        "from __future__ import absolute_import\n\n"
        "import boto3\n"
        "import pytest\n"
        "from sagemaker.pytorch import PyTorch\n"
        "from sagemaker import get_execution_role\n"
        "from sagemaker.debugger import Rule, DebuggerHookConfig, TensorBoardOutputConfig, "
        "CollectionConfig, rule_configs"
    ),
    Row("role = get_execution_role()", "role", "arn:aws:iam::000000000000:role/trackside"),
    Row("training_dir = '/tmp/pytorch-smdebug'\nsmdebug_mnist_script = 'scripts/pytorch_mnist.py'"),
    Row(
        "hyperparameters = {'random_seed': True, 'num_steps': 50, 'epochs': 5,\n"
        "                   'data_dir':training_dir}"
    ),
    Row("rules = [\n    Rule.sagemaker(rule_configs.vanishing_gradient())\n]", "len(rules)", 1),
    Row(
        "estimator = PyTorch(entry_point=smdebug_mnist_script,\n"
        "                  base_job_name='smdebugger-demo-mnist-pytorch',\n"
        "                  role=role,\n"
        "                  train_instance_count=1,\n"
        "                  train_instance_type='ml.m4.xlarge',\n"
        "                  train_volume_size=400,\n"
        "                  train_max_run=3600,\n"
        "                  hyperparameters=hyperparameters,\n"
        "                  framework_version='1.3.1',\n"
        "                  py_version='py3',\n"
        "                  ## New parameter\n"
        "                  rules = rules\n"
        "                 )"
    ),
    Row("estimator.fit(wait=False)"),
    Row(  # ours: the text shows what it is at the end
        "import time\n"
        "def is_over(job):\n"
        "    is_judged = job.rule_job_summary()[0]['RuleEvaluationStatus'] != 'InProgress'\n"
        "    return is_judged and job.describe()['TrainingJobStatus'] != 'InProgress'\n"
        "while not is_over(estimator.latest_training_job):\n"
        "    time.sleep(0.5)",
        "estimator.latest_training_job.describe()['TrainingJobStatus']",
        "Completed",
    ),
    Row(
        "estimator.latest_training_job.rule_job_summary()",
        "[[each['RuleConfigurationName'], each['RuleEvaluationStatus'],"
        " 'RuleEvaluationJobArn' in each, 'LastModifiedTime' in each] for each in _]",
        [["VanishingGradient", "NoIssuesFound", True, True]],
    ),
    Row(
        "def _get_rule_job_name(training_job_name, rule_configuration_name, rule_job_arn):\n"
        '        """Helper function to get the rule job name with correct casing"""\n'
        '        return "{}-{}-{}".format(\n'
        "            training_job_name[:26], rule_configuration_name[:26], rule_job_arn[-8:]\n"
        "        )\n\n"
        "def _get_cw_url_for_rule_job(rule_job_name, region):\n"
        '    return "https://{}.console.aws.amazon.com/cloudwatch/home?region={}#logStream:group='
        '/aws/sagemaker/ProcessingJobs;prefix={};streamFilter=typeLogStreamPrefix".format('
        "region, region, rule_job_name)\n\n\n"
        "def get_rule_jobs_cw_urls(estimator):\n"
        "    region = boto3.Session().region_name\n"
        "    training_job = estimator.latest_training_job\n"
        '    training_job_name = training_job.describe()["TrainingJobName"]\n'
        '    rule_eval_statuses = training_job.describe()["DebugRuleEvaluationStatuses"]\n\n'
        "    result={}\n"
        "    for status in rule_eval_statuses:\n"
        '        if status.get("RuleEvaluationJobArn", None) is not None:\n'
        "            rule_job_name = _get_rule_job_name(training_job_name, "
        'status["RuleConfigurationName"], status["RuleEvaluationJobArn"])\n'
        '            result[status["RuleConfigurationName"]] = _get_cw_url_for_rule_job('
        "rule_job_name, region)\n"
        "    return result"
    ),
    Row(
        "get_rule_jobs_cw_urls(estimator)",
        "{name: url.partition('prefix=')[2].rpartition('-')[0] for name, url in _.items()}",
        {"VanishingGradient": "smdebugger-demo-mnist-pyto-VanishingGradient"},
    ),
    Row(
        "from smdebug.trials import create_trial\n"
        "trial = create_trial(estimator.latest_job_debugger_artifacts_path())"
    ),
    Row("trial.tensor_names()", "_", [*LOSSES, *NAMES]),
    Row('trial.tensor_names(collection="losses")', "_", LOSSES),
]


@pytest.mark.parametrize("sdk", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_seed_002(shell: ClientShell, sdk: int):
    (shell.folder / "scripts").mkdir()
    (shell.folder / "scripts" / "pytorch_mnist.py").write_text(as_script(SCRIPT_002))
    _, [*given, lines] = shell.python(as_cells([*NOTEBOOK_002, Row(LOG, "lines")]), sdk=sdk)
    assert_each(NOTEBOOK_002, given)
    assert_each(SCRIPT_002, given_in("\n".join(lines), SCRIPT_002))


LOG = """
client, group = boto3.client("logs"), "/aws/sagemaker/TrainingJobs"
[stream] = client.describe_log_streams(logGroupName=group)["logStreams"]
told = client.get_log_events(
    logGroupName=group, logStreamName=stream["logStreamName"], startFromHead=True)
lines = [each["message"] for each in told["events"]]
"""


# Leveraging TensorBoard for comprehensive monitoring in PyTorch: one script and two commands.

SCRIPT_003 = [
    Row(
        "import torch\n"
        "import torch.nn as nn\n"
        "import torch.optim as optim\n"
        "from torch.utils.data import DataLoader\n"
        "from torch.utils.tensorboard import SummaryWriter\n"
        "import time\n"
        "import psutil\n"
        "import os"
    ),
    Row(  # ours; where there is no GPU `.cuda()` is the tensor itself
        "if not torch.cuda.is_available():\n"
        "    torch.Tensor.cuda = lambda self: self\n"
        "MyModel = lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 3))\n"
        "data = [(torch.randn(4, 4), number % 3) for number in range(192)]\n"
        "train_dataset, val_loader, num_epochs = data, DataLoader(data[:64], batch_size=32), 2"
    ),
    Row(
        "# Initialize your model, criterion, and optimizer\n"
        "model = MyModel()\n"
        "criterion = nn.CrossEntropyLoss()\n"
        "optimizer = optim.Adam(model.parameters(), lr=0.001)"
    ),
    Row("# Initialize the TensorBoard writer\nwriter = SummaryWriter(log_dir='runs/experiment_1')"),
    Row(
        "# Dataloader example\n"
        "train_loader = DataLoader(dataset=train_dataset, batch_size=64, shuffle=True,"
        " num_workers=8)",
        "len(train_loader)",
        3,
    ),
    Row(
        """for epoch in range(num_epochs):
    running_loss = 0.0
    correct = 0
    total = 0

    model.train()
    for batch_idx, (inputs, labels) in enumerate(train_loader):
        inputs, labels = inputs.cuda(), labels.cuda()

        optimizer.zero_grad()
        outputs = model(inputs)
        loss = criterion(outputs, labels)
        loss.backward()
        optimizer.step()

        # Log the loss
        running_loss += loss.item()
        _, predicted = outputs.max(1)
        total += labels.size(0)
        correct += predicted.eq(labels).sum().item()

        # Every 10 batches, log the metrics
        if batch_idx % 10 == 0:
            writer.add_scalar('Training/Loss', running_loss / (batch_idx + 1), """
        """epoch * len(train_loader) + batch_idx)
            writer.add_scalar('Training/Accuracy', 100. * correct / total, """
        """epoch * len(train_loader) + batch_idx)

    # Log metrics after every epoch
    epoch_loss = running_loss / len(train_loader)
    epoch_acc = 100. * correct / total

    writer.add_scalar('Epoch/Loss', epoch_loss, epoch)
    writer.add_scalar('Epoch/Accuracy', epoch_acc, epoch)

    print(f'Epoch [{epoch+1}/{num_epochs}], Loss: {epoch_loss:.4f}, Accuracy: {epoch_acc:.2f}%')""",
        "[epoch, total]",
        [1, 192],
    ),
    Row(
        "for param_group in optimizer.param_groups:\n"
        "    writer.add_scalar('Learning_Rate', param_group['lr'], epoch)"
    ),
    Row(
        """model.eval()
val_loss = 0.0
val_correct = 0
val_total = 0

with torch.no_grad():
    for inputs, labels in val_loader:
        inputs, labels = inputs.cuda(), labels.cuda()
        outputs = model(inputs)
        loss = criterion(outputs, labels)
        val_loss += loss.item()
        _, predicted = outputs.max(1)
        val_total += labels.size(0)
        val_correct += predicted.eq(labels).sum().item()

val_loss /= len(val_loader)
val_accuracy = 100. * val_correct / val_total

writer.add_scalar('Validation/Loss', val_loss, epoch)
writer.add_scalar('Validation/Accuracy', val_accuracy, epoch)""",
        "val_total",
        64,
    ),
    Row("writer.close()"),  # ours
    Row("writer = SummaryWriter(log_dir='runs/experiment_2')"),
    Row("writer.add_scalar('Epoch/Loss', 1.0, 0); writer.close()"),  # ours
]

CURVES_003 = {
    *("Training/Loss", "Training/Accuracy", "Epoch/Loss", "Epoch/Accuracy", "Learning_Rate"),
    *("Validation/Loss", "Validation/Accuracy"),
}


def test_seed_003(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    Path("train.py").write_text(as_script(SCRIPT_003))
    subprocess.run(["bash", "-c", "pip install -q tensorboard"], env=environment, check=True)
    command = [sys.executable, "-m", "trackside.cli", "run", "train.py", "--name", "third"]
    done = subprocess.run(
        [*command, "--wait", "--bring-back"], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert_each(SCRIPT_003, given_in(done.stdout, SCRIPT_003))
    assert "Epoch [2/2], Loss: " in done.stdout
    typed_command = ["bash", "-c", 'exec tensorboard --logdir=runs "$@"', "bash"]
    with started(typed_command, environment) as page:  # in the folder, as the text has it
        until(lambda: page.runs() == ["experiment_1", "experiment_2"], seconds=120)
        until(lambda: page.tags("experiment_1") == CURVES_003, seconds=120)
        assert page.steps("experiment_1", "Epoch/Loss") == [0, 1]
    command = [sys.executable, "-m", "trackside.cli", "metrics", "third", "--json"]
    reported = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert all(name in reported.stdout for name in CURVES_003)


# SageMaker Training Toolkit: how a script is executed and what it is told.

HYPERPARAMETERS_004 = {"batch-size": 256, "learning-rate": 0.0001, "communicator": "pure_nccl"}

SCRIPT_004 = [
    Row("import argparse\nimport json\nimport os"),
    Row("import numpy as np\nparser = argparse.ArgumentParser()"),  # ours
    Row(
        "# reads input channels training and testing from the environment variables\n"
        "parser.add_argument('--training', type=str, default=os.environ['SM_CHANNEL_TRAINING'])\n"
        "parser.add_argument('--testing', type=str, default=os.environ['SM_CHANNEL_TESTING'])"
    ),
    Row(
        "# using it as variable\nmodel_dir = os.environ['SM_MODEL_DIR']",
        "model_dir",
        "/opt/ml/model",
    ),
    Row(
        "# using it as variable\nchannel_names = json.loads(os.environ['SM_CHANNELS'])",
        "channel_names",
        ["testing", "training"],
    ),
    Row(
        "parser.add_argument('--train', type=str, default=os.environ['SM_CHANNEL_TRAINING'])\n"
        "parser.add_argument('--test', type=str, default=os.environ['SM_CHANNEL_TESTING'])"
    ),
    Row("args, _ = parser.parse_known_args()", "args.testing", "/opt/ml/input/data/testing"),
    Row(
        "train_file = np.load(os.path.join(args.train, 'train.npz'))\n"
        "test_file = np.load(os.path.join(args.test, 'test.npz'))",
        "[train_file['x'].tolist(), test_file['x'].tolist()]",
        [[1], [2]],
    ),
    Row(
        "hyperparameters = json.loads(os.environ['SM_HPS'])", "hyperparameters", HYPERPARAMETERS_004
    ),
    Row(
        "learning_rate = float(os.environ['SM_HP_LEARNING-RATE'])\n"
        "batch_size = int(os.environ['SM_HP_BATCH-SIZE'])\n"
        "comminicator = os.environ['SM_HP_COMMUNICATOR']",
        "[learning_rate, batch_size, comminicator]",
        [0.0001, 256, "pure_nccl"],
    ),
    Row("current_host = os.environ['SM_CURRENT_HOST']", "current_host", "algo-1"),
    Row("hosts = json.loads(os.environ['SM_HOSTS'])", "hosts", ["algo-1"]),
    Row("num_gpus = int(os.environ['SM_NUM_GPUS'])", "num_gpus >= 0", True),
    Row("num_cpus = int(os.environ['SM_NUM_CPUS'])", "num_cpus >= 1", True),
    Row(
        "import logging\n\n"
        "logger = logging.getLogger(__name__)\n\n"
        "logger.setLevel(int(os.environ.get('SM_LOG_LEVEL', logging.INFO)))",
        "logger.level",
        20,
    ),
    Row(
        "network_interface = os.environ['SM_NETWORK_INTERFACE_NAME']",
        "network_interface in os.listdir('/sys/class/net')",
        True,
    ),
    Row(
        "",
        "sorted(json.loads(os.environ['SM_USER_ARGS'])) == sorted(__import__('sys').argv[1:])",
        True,
    ),
    Row("", "os.environ['SM_INPUT_DIR'].rstrip('/')", "/opt/ml/input"),
    Row("", "os.environ['SM_INPUT_CONFIG_DIR']", "/opt/ml/input/config"),
    Row(
        "",
        "sorted(set(os.listdir('/opt/ml/input/config')) & {'hyperparameters.json',"
        " 'inputdataconfig.json', 'resourceconfig.json'})",
        ["hyperparameters.json", "inputdataconfig.json", "resourceconfig.json"],
    ),
    Row("", "os.environ['SM_OUTPUT_DATA_DIR'].startswith('/opt/ml/output/data')", True),
    Row(
        "",
        "{key: json.loads(os.environ['SM_RESOURCE_CONFIG'])[key]"
        " for key in ('current_host', 'hosts')}",
        {"current_host": "algo-1", "hosts": ["algo-1"]},
    ),
    Row(
        "",
        "json.loads(os.environ['SM_INPUT_DATA_CONFIG'])['training']",
        {
            "RecordWrapperType": "None",
            "S3DistributionType": "FullyReplicated",
            "TrainingInputMode": "File",
        },
    ),
    Row(
        "",
        "[json.loads(os.environ['SM_TRAINING_ENV'])[key] for key in"
        " ('channel_input_dirs', 'hyperparameters', 'input_dir', 'log_level', 'module_name')]",
        [
            {
                "testing": "/opt/ml/input/data/testing",
                "training": "/opt/ml/input/data/training",
            },
            HYPERPARAMETERS_004,
            "/opt/ml/input",
            20,
            "train",
        ],
    ),
]

ARGUMENTS_004 = [
    Row(
        """import argparse

if __name__ == '__main__':
  parser = argparse.ArgumentParser()

  parser.add_argument('--learning-rate', type=int, default=1)
  parser.add_argument('--batch-size', type=int, default=64)
  parser.add_argument('--communicator', type=str)
  parser.add_argument('--frequency', type=int, default=20)

  args = parser.parse_args()""",
        "vars(args)",
        # `type=int` takes no 0.0001: so the text's own script is given another figure.
        {"learning_rate": 3, "batch_size": 256, "communicator": "pure_nccl", "frequency": 20},
    ),
]


def channel(machine: Machine, name: str, file: str, value: int) -> dict[str, object]:
    import numpy as np

    folder = machine.folder / name
    folder.mkdir()
    np.savez(folder / file, x=[value])
    return {"ChannelName": name, "DataSource": {"S3DataSource": {"S3Uri": str(folder)}}}


def test_seed_004_a_python_script_is_reported_everything(machine: Machine):
    channels = [
        channel(machine, "training", "train.npz", 1),
        channel(machine, "testing", "test.npz", 2),
    ]
    given = {name: json.dumps(value) for name, value in HYPERPARAMETERS_004.items()}
    job = machine.run(as_script(SCRIPT_004), hyperparameters=given, InputDataConfig=channels)
    assert job.history().state.status is Status.COMPLETED, job.log()[-3000:]
    assert_each(SCRIPT_004, given_in(job.log(), SCRIPT_004))


def test_seed_004_hyperparameters_become_arguments(machine: Machine):
    given = {"batch-size": "256", "learning-rate": "3", "communicator": "pure_nccl"}
    job = machine.run(as_script(ARGUMENTS_004), hyperparameters=given)
    assert_each(ARGUMENTS_004, given_in(job.log(), ARGUMENTS_004))
    given = {name: json.dumps(value) for name, value in HYPERPARAMETERS_004.items()}
    script = {"user_script.sh": "echo GOT $0 $@"}
    job = machine.run(script, entry_point="user_script.sh", hyperparameters=given)
    line = "./user_script.sh --batch-size 256 --communicator pure_nccl --learning-rate 0.0001"
    assert job.said("GOT") == line


# The Dockerfile of seed 004, `docker build -t tf-2.0 .` and the estimator of its image are in
# test_images.py, and the script of that image is a job of its own in test_tensorflow.py.
#
# Not run as written:
# - `serializers.save_npz(...)` of Chainer, which is no longer maintained: SM_MODEL_DIR is above.
# - seed 003's function that calls `pynvml.nvmlInit()`: it needs an NVIDIA GPU.
# - `!python -m pip install smdebug`: ours stands before it, see tests/clients/test_redirect.py.
