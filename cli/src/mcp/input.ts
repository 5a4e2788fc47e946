import { z } from "zod";
import type { Reach } from "./call.ts";
import type { Tool } from "./tool.ts";

const projectSchema = z.string().optional().describe("Slug or id; default: the one of this directory");
const slugSchema = z.string().describe("The project's slug once more: nothing is changed where it is another one");

/** What a tool takes here: which project, where there may be several; and its slug, where something cannot be taken back. */
export const inputOf = (tool: Tool, { allProjects }: Pick<Reach, "allProjects">): z.ZodObject =>
  z.strictObject({
    ...tool.input,
    ...(tool.ofProject && allProjects && { project: projectSchema }),
    ...(tool.effect === "destroys" && { slug: slugSchema }),
  });
