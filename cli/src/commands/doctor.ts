import { channels, plural } from "@svc/proto";
import { command, flag } from "../command.ts";
import { ask } from "../doctor/ask.ts";
import type { Check, CheckStatus } from "../doctor/check.ts";
import { judge } from "../doctor/judge.ts";
import type { Paint } from "../paint.ts";

const marks: Readonly<Record<CheckStatus, [style: Parameters<Paint>[0], mark: string]>> = {
  ok: ["green", "✓"],
  warning: ["yellow", "!"],
  failed: ["red", "✗"],
  skipped: ["dim", "-"],
};

export const doctor = command({
  name: "doctor",
  summary: "Check the login, the platform, the manifest and the project",
  details:
    "Changes nothing. `healthy` is true, and the exit status 0, when nothing failed; warnings and what was skipped do not count.",
  flags: {
    project: flag.project,
    channel: flag.choice("--channel <channel>", "Whose database to look at; default: production", channels),
  },
  examples: ["svc doctor", "svc doctor --project shop --channel preview"],
  async run(context, { project, channel = "production" }) {
    const checks = judge(await ask(context, channel, project));
    return { channel, healthy: checks.every(({ status }) => status !== "failed"), checks };
  },
  render: ({ checks, healthy }, { paint }) => {
    const width = Math.max(...checks.map(({ name }) => name.length));
    const lines = checks.flatMap(({ name, status, detail, hint }) => {
      const [style, mark] = marks[status];
      const text = `${paint(style, mark)} ${name.padEnd(width)}  ${status === "skipped" ? paint("dim", detail) : detail}`;
      return hint === undefined ? [text] : [text, `${" ".repeat(width + 4)}${paint("cyan", "→")} ${hint}`];
    });
    return [...lines, "", healthy ? verdict(checks) : paint("red", verdict(checks))].join("\n");
  },
  exitCode: ({ healthy }) => (healthy ? 0 : 1),
});

/** What all of it comes to, in the words of the worst. */
function verdict(checks: readonly Pick<Check, "status">[]): string {
  const count = (wanted: CheckStatus) => checks.filter(({ status }) => status === wanted).length;
  if (count("failed") > 0) return `${plural(count("failed"), "check")} failed: that has to be mended`;
  return count("warning") > 0 ? `Nothing failed; ${plural(count("warning"), "warning")}` : "Nothing is wrong";
}
