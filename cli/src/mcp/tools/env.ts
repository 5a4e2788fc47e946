import { envReply } from "@svc/proto";
import { z } from "zod";
import { envPath } from "../../commands/env/dotenv-file.ts";
import { tool } from "../tool.ts";
import { takes } from "./fields.ts";

const listEnvKeys = tool({
  name: "list_env_keys",
  title: "List names of environment variables",
  description:
    "Which variables the project has, or with a channel those that go over them there. Names only: no tool tells a value. They are changed with `svc env pull` and `svc env push`, by the person.",
  effect: "reads",
  input: { channel: takes.channel },
  output: { keys: z.array(z.string()) },
  async run(call, { channel }) {
    const { id } = await call.target();
    const { vars } = await call.api.get(envPath(id, channel), envReply);
    return { keys: Object.keys(vars).sort() };
  },
});

export const envTools = [listEnvKeys];
