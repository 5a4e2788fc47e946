import { benchDecisions } from "../decisions.ts";
import { atLeast, atMost, type Measurement } from "../measure.ts";

const aimPerSecond = 20_000;
const worsePercent = 3;

/** Row 1: what deciding costs, without anything that stores a decision. */
export async function measureDecisions(report: (measurement: Measurement) => void): Promise<void> {
  const { nodes, requests, decisionsPerSecond, blockedRoundMs, packing } = await benchDecisions();
  const { empty, full90 } = decisionsPerSecond;
  const who = `${nodes.toLocaleString("en-US")} nodes`;
  const common = { row: 1, per: "run", note: null } as const;
  const aim = atLeast(aimPerSecond, "/s");
  const note = `${requests.toLocaleString("en-US")} requests in a round, with labels, platforms and spread; one thread`;
  report({ ...common, metric: `decisions, ${who}, empty`, unit: "/s", samples: empty, aim, note });
  report({ ...common, metric: `decisions, ${who}, 90 % full`, unit: "/s", samples: full90, aim });
  report({
    ...{ ...common, metric: "- 90 % full against empty", unit: "of the rate" },
    samples: full90.map((rate, run) => rate / (empty[run] ?? Number.NaN)),
    aim: { text: ">= 0.8", judged: "median", met: (value) => value >= 0.8 },
  });
  report({
    ...{ ...common, metric: "packing, worse than a look at every node", unit: "%", samples: packing.worseByPercent },
    aim: atMost(worsePercent, "%", "median"),
  });
  report({ ...common, metric: "10,000 requests that fit nowhere", unit: "ms", samples: blockedRoundMs, aim: null });
}
