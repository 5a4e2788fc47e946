import { deploymentReply, type Project } from "@svc/proto";
import type { Api } from "../api.ts";
import { type Context, createRun, type Surroundings } from "../context.ts";
import { CliError, toCliError } from "../errors.ts";
import { deploymentIdOf } from "../ids.ts";
import { explainNotFound } from "../link-trouble.ts";
import { getProject, resolveTarget, type Target } from "../target.ts";

/** Which projects a server may touch, as it was started. `named` is its `--project`. */
export interface Reach {
  named: string | undefined;
  allProjects: boolean;
}

/** One call of a tool: its own way to the platform, which ends with it. */
export interface Call {
  context: Context;
  api: Api;
  reach: Reach;
  /** What names the project in this call, for commands that take `--project`; undefined: the linked one. */
  named: string | undefined;
  /** The project that is meant. CLOUD_NOT_FOUND where nothing says which. */
  target(): Promise<Target>;
  /** The id of a deployment of that project. CLOUD_NOT_FOUND for one of another. */
  deploymentId(text: string): Promise<string>;
  /**
   * A secret that came with this call, which a refusal of it must not repeat. Whoever called knows it; to cut it out of all that is told
   * from then on would cut words of ours where it is one.
   */
  hide(secret: string): void;
}

/**
 * Does `work` for one call. Throws CliErrors alone. Nobody sits at this program, so that nothing is asked, and what goes to stdout elsewhere
 * goes nowhere.
 */
export async function withCall<T>(
  surroundings: Surroundings,
  {
    reach,
    project,
    signal,
    hide,
  }: { reach: Reach; project: string | undefined; signal: AbortSignal; hide: Call["hide"] },
  work: (call: Call) => Promise<T>,
): Promise<{ result: T; warnings: string[] }> {
  const { terminal, globals } = surroundings;
  const run = createRun({
    ...surroundings,
    signal: AbortSignal.any([surroundings.signal, signal]),
    terminal: { ...terminal, interactive: false, animated: false },
    globals: { ...globals, json: true, yes: true },
    print: () => {},
  });
  const { context } = run;
  try {
    const named = reach.allProjects ? (project ?? reach.named) : reach.named;
    const api = await context.api();
    const target = () => resolveTarget(context, named);
    const call: Call = {
      context,
      api,
      reach,
      named,
      target,
      async deploymentId(text) {
        const id = deploymentIdOf(text);
        const [{ deployment }, { id: projectId }] = await Promise.all([
          api.get(`/deployments/${id}`, deploymentReply),
          target(),
        ]);
        if (deployment.projectId === projectId) return id;
        throw new CliError("CLOUD_NOT_FOUND", "The project has no such deployment", {
          hint: "See its deployments with get_project",
        });
      },
      hide,
    };
    return { result: await work(call), warnings: run.warnings };
  } catch (thrown) {
    throw await explainNotFound(context, run.followed(), toCliError(thrown));
  } finally {
    await run.close();
  }
}

/** The project, when `slug` is its slug: who asks for something that cannot be undone says so twice. */
export async function confirmed(call: Call, slug: string): Promise<Project> {
  const { project } = await getProject(call.context, call.named);
  if (slug === project.slug) return project;
  throw new CliError(
    "DESTRUCTIVE_CONFIRMATION_REQUIRED",
    "The slug that was repeated is not that of the project; nothing was changed",
    { hint: "See which project this is with get_project, and repeat its slug once the person agrees" },
  );
}
