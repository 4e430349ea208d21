import argparse
import pickle

import numpy as np
import xgboost as xgb


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-round", type=int, default=12)
    parser.add_argument("--max-depth", type=int, default=3)
    args = parser.parse_args()

    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 5))
    y = (x[:, 0] * x[:, 1] > 0).astype(int)
    dtrain, dval = xgb.DMatrix(x[:300], y[:300]), xgb.DMatrix(x[300:], y[300:])
    params = {
        "objective": "binary:logistic",
        "eval_metric": ["logloss", "error"],
        "max_depth": args.max_depth,
        "nthread": 1,
    }
    history = {}
    booster = xgb.train(
        params,
        dtrain,
        args.num_round,
        evals=[(dtrain, "train"), (dval, "validation")],
        evals_result=history,
    )
    booster.save_model("model.json")
    with open("history.pkl", "wb") as f:
        pickle.dump(history, f)


if __name__ == "__main__":
    main()
