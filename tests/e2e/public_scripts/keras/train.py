import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np

keras.utils.set_random_seed(1)
x = np.random.normal(size=(128, 4)).astype("float32")
y = (x.sum(axis=1) > 0).astype("int32")

model = keras.Sequential(
    [
        keras.layers.Input((4,)),
        keras.layers.Dense(8, activation="relu"),
        keras.layers.Dense(2, activation="softmax"),
    ]
)
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(
    x,
    y,
    epochs=4,
    validation_split=0.25,
    callbacks=[
        keras.callbacks.CSVLogger("training.csv"),
        keras.callbacks.ModelCheckpoint("checkpoints/best.keras", save_best_only=True),
    ],
)
model.save("model.keras")
