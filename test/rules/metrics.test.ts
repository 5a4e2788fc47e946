import { readFileSync } from "node:fs";
import { createMetrics as createAgentMetrics } from "@svc/agent/metrics/metrics";
import { createMetrics as createControlMetrics } from "@svc/control/metrics/metrics";
import { createMetrics as createDatabaseProxyMetrics } from "@svc/dbproxy/metrics/metrics";
import { createMetrics as createRouterMetrics } from "@svc/router/metrics/metrics";
import { describe, expect, test } from "vitest";

const text = readFileSync(new URL("../../docs/metrics.md", import.meta.url), "utf8");
const programs = {
  control: createControlMetrics().registry,
  agent: createAgentMetrics().registry,
  router: createRouterMetrics().registry,
  dbproxy: createDatabaseProxyMetrics().registry,
};

/** Lines of the table under a program's heading, without its head. */
const documented = (program: string): string[] => {
  const section = text.split(/^## /m).find((each) => each.startsWith(`${program}\n`)) ?? "";
  return section.split("\n").filter((line) => line.startsWith("| `svc_"));
};

/** A metric as a line of that table. prom-client keeps the names of labels where its types do not tell. */
const lineOf = (metric: object): string => {
  const { name, type, help, labelNames } = metric as { name: string; type: string; help: string; labelNames: string[] };
  return `| \`${name}\` | ${type} | ${labelNames.join(", ") || "-"} | ${help} |`;
};

describe.each(Object.entries(programs))("%s", (program, registry) => {
  test("docs/metrics.md lists every metric, as it is", () => {
    expect(documented(program)).toEqual(registry.getMetricsAsArray().map(lineOf));
  });

  test("names end in what is counted, and no label can name a tenant", () => {
    const metrics = registry.getMetricsAsArray() as unknown as { name: string; type: string; labelNames: string[] }[];
    for (const { name, type } of metrics) {
      expect(name).toMatch(new RegExp(`^svc_${program}_[a-z_]+$`));
      expect([name, name.endsWith("_total")]).toEqual([name, type === "counter"]);
    }
    const labels = new Set(metrics.flatMap(({ labelNames }) => labelNames));
    expect([...labels].filter((label) => /id|host|project|user|path|address|slug|name/.test(label))).toEqual([]);
  });
});
