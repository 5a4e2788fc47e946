import { z } from "zod";
import { tool, untrusted } from "../tool.ts";
import { takes } from "./fields.ts";

const doctorTool = tool({
  name: "doctor",
  title: "Look for what is wrong",
  description:
    "Checks the login, the platform, the manifest of this directory, the project, its database and its domains. Changes nothing.",
  effect: "reads",
  input: { channel: takes.channel.describe("Whose database to look at; default: production") },
  output: {
    channel: z.string(),
    healthy: z.boolean(),
    checks: z.array(z.looseObject({ name: z.string(), status: z.string(), hint: z.string().optional() })),
    // They quote manifests, and what zones and authorities say about domains.
    untrusted: untrusted({
      details: z.record(z.string(), z.string()).describe("What was found, by the checks' names"),
    }),
  },
  async run(call, { channel = "production" }) {
    const [{ ask }, { judge }] = await Promise.all([import("../../doctor/ask.ts"), import("../../doctor/judge.ts")]);
    const checks = judge(await ask(call.context, channel, call.named));
    return {
      channel,
      healthy: checks.every(({ status }) => status !== "failed"),
      checks: checks.map(({ detail: _detail, ...each }) => each),
      untrusted: { details: Object.fromEntries(checks.map(({ name, detail }) => [name, detail])) },
    };
  },
});

export const doctorTools = [doctorTool];
