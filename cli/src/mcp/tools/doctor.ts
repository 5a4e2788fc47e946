import { z } from "zod";
import { tool } from "../tool.ts";
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
    checks: z.array(
      z.looseObject({ name: z.string(), status: z.string(), detail: z.string(), hint: z.string().optional() }),
    ),
  },
  async run(call, { channel = "production" }) {
    const [{ ask }, { judge }] = await Promise.all([import("../../doctor/ask.ts"), import("../../doctor/judge.ts")]);
    const checks = judge(await ask(call.context, channel, call.named));
    return {
      channel,
      healthy: checks.every(({ status }) => status !== "failed"),
      checks: checks.map((each) => ({ ...each })),
    };
  },
});

export const doctorTools = [doctorTool];
