import { channels } from "@svc/proto";
import { command, flag } from "../command.ts";
import { ask } from "../doctor/ask.ts";
import type { CheckStatus } from "../doctor/check.ts";
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
  details: "Changes nothing. `healthy` is true when nothing failed; warnings and what was skipped do not count.",
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
    return [...lines, "", healthy ? "Nothing is wrong" : paint("red", "Something has to be mended")].join("\n");
  },
});
