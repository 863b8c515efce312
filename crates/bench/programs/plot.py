import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd

rows = 10_000
frame = pd.DataFrame(
    {
        "region": [("north", "east", "south", "west")[n % 4] for n in range(rows)],
        "month": [n // 7 % 12 + 1 for n in range(rows)],
        "sales": [(n * 7919) % 1000 / 10 for n in range(rows)],
    }
)
table = frame.groupby(["month", "region"])["sales"].mean().unstack()
axes = table.plot(figsize=(6, 4), title="Sales")
axes.figure.savefig("sales.png")
plt.close(axes.figure)
print(table.shape)
