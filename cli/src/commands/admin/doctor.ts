import { doctorReply, type OperatorCheckStatus } from "@svc/proto";
import { command } from "../../command.ts";
import { CliError } from "../../errors.ts";
import { formatDuration, wrapText } from "../../format.ts";
import type { Paint } from "../../paint.ts";

const marks: Readonly<Record<OperatorCheckStatus, [style: Parameters<Paint>[0], mark: string]>> = {
  ok: ["green", "✓"],
  warn: ["yellow", "!"],
  fail: ["red", "✗"],
};

const columnsUsual = 80;
const columnsMax = 120;

export const adminDoctor = command({
  name: "admin doctor",
  summary: "Check the installation: stores, clocks, certificates, machines, routes and work",
  details: "Changes nothing. `healthy` is true, and the exit status 0, when nothing failed; warnings do not count.",
  examples: ["svc admin doctor", "svc admin doctor --json"],
  run: async (context) => {
    const api = await context.api();
    const { healthy, at, answeredInMs, checks } = await api.get("/admin/doctor", doctorReply).catch((thrown) => {
      if (!(thrown instanceof CliError) || (thrown.server?.status ?? 0) < 500) throw thrown;
      // Who asks is looked up in Postgres, so without it nothing else is looked at.
      throw new CliError(thrown.code, `Control answers and could not look: ${thrown.message}`, {
        cause: thrown,
        hint: "Most likely it does not reach Postgres, which it asks who you are: see whether that runs, /readyz at control's SVC_METRICS_LISTEN, and control's log",
        ...(thrown.server && { server: thrown.server }),
      });
    });
    return { healthy, at, answeredInMs, checks };
  },
  render: ({ checks, healthy, answeredInMs }, { paint, columns }) => {
    const nameWidth = Math.max(...checks.map(({ name }) => name.length));
    const indent = " ".repeat(nameWidth + 4);
    const width = Math.min(columns ?? columnsUsual, columnsMax) - indent.length;
    const under = (text: string, head: string, style?: Parameters<Paint>[0]) =>
      wrapText(text, width - 2).map((line, index) => {
        const shown = style === undefined ? line : paint(style, line);
        return `${indent}${index === 0 ? head : " "} ${shown}`;
      });
    const lines = checks.flatMap(({ name, status, detail, hint, more }) => {
      const [style, mark] = marks[status];
      const [first = "", ...rest] = wrapText(detail, width);
      return [
        `${paint(style, mark)} ${name.padEnd(nameWidth)}  ${first}`,
        ...rest.map((line) => `${indent}${line}`),
        ...(hint === null ? [] : under(hint, paint("cyan", "→"))),
        ...more.flatMap((text) => under(text, paint("dim", "·"), "dim")),
      ];
    });
    const failed = checks.filter(({ status }) => status === "fail").length;
    const verdict = healthy
      ? "Nothing is broken"
      : paint("red", `${failed === 1 ? "One check" : `${failed} checks`} failed: that has to be mended`);
    return [...lines, "", `${verdict} ${paint("dim", `(looked for ${formatDuration(answeredInMs)})`)}`].join("\n");
  },
  exitCode: ({ healthy }) => (healthy ? 0 : 1),
});
