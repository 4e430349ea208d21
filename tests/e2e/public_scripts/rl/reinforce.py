import argparse
import os
import random
import time

import gymnasium as gym
import numpy as np
import torch
from torch import nn, optim
from torch.distributions.categorical import Categorical
from torch.utils.tensorboard import SummaryWriter


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--exp-name", default=os.path.basename(__file__).removesuffix(".py"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--env-id", default="CartPole-v1")
    parser.add_argument("--total-timesteps", type=int, default=500000)
    parser.add_argument("--learning-rate", type=float, default=2.5e-2)
    parser.add_argument("--save-model", action=argparse.BooleanOptionalAction, default=False)
    return parser.parse_args()


if __name__ == "__main__":
    args = parse_args()
    run_name = f"{args.env_id}__{args.exp_name}__{args.seed}__{int(time.time())}"
    writer = SummaryWriter(f"runs/{run_name}")
    writer.add_text(
        "hyperparameters",
        "|param|value|\n|-|-|\n" + "\n".join(f"|{k}|{v}|" for k, v in vars(args).items()),
    )
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    env = gym.wrappers.RecordEpisodeStatistics(gym.make(args.env_id))
    actor = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer = optim.Adam(actor.parameters(), lr=args.learning_rate)
    global_step, start_time = 0, time.time()
    obs, _ = env.reset(seed=args.seed)
    logprobs, rewards = [], []
    while global_step < args.total_timesteps:
        global_step += 1
        probs = Categorical(logits=actor(torch.as_tensor(obs)))
        action = probs.sample()
        obs, reward, terminated, truncated, info = env.step(action.item())
        logprobs.append(probs.log_prob(action))
        rewards.append(reward)
        if terminated or truncated:
            returns = torch.as_tensor(np.cumsum(rewards[::-1])[::-1].copy(), dtype=torch.float32)
            loss = -(torch.stack(logprobs) * (returns - returns.mean())).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"global_step={global_step}, episodic_return={info['episode']['r']}")
            writer.add_scalar("charts/episodic_return", info["episode"]["r"], global_step)
            writer.add_scalar("losses/policy_loss", loss.item(), global_step)
            sps = int(global_step / (time.time() - start_time))
            writer.add_scalar("charts/SPS", sps, global_step)
            obs, _ = env.reset()
            logprobs, rewards = [], []
    if args.save_model:
        model_path = f"runs/{run_name}/{args.exp_name}.cleanrl_model"
        torch.save(actor.state_dict(), model_path)
        print(f"model saved to {model_path}")
    env.close()
    writer.close()
