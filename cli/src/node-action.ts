import { type DrainNodeInput, type NodeAction, nodeActionReply } from "@svc/proto";
import type { Api } from "./api.ts";
import { type Argument, argument, flag } from "./command.ts";
import type { Context } from "./context.ts";
import { CliError, fromServerError } from "./errors.ts";
import { type Paint, paintStatus } from "./paint.ts";
import { postOnce } from "./post-once.ts";

/** What the commands that act on a machine take. */
export const nodeArguments = {
  node: {
    ...argument.required("node", "Its id, or its name when no other has it"),
    completes: "nodes",
  } satisfies Argument<string>,
};
export const reasonFlag = flag.text("--reason <text>", "Why; kept with the machine for whoever looks later");

/** What was asked of a machine, and how it is now. A type, since a payload is one. */
export interface NodeActed {
  queued: boolean;
  action: NodeAction;
  node: { id: string; name: string; status: string };
  jobId?: string;
}

/** Asks for an action. One that is not possible says why, and what to look at. */
export async function actOnNode(
  context: Context,
  api: Api,
  { id, name }: { id: string; name: string },
  action: NodeAction,
  body: DrainNodeInput,
): Promise<NodeActed> {
  const { queued, node, jobId } = await postOnce(context, api, `/admin/nodes/${id}/${action}`, nodeActionReply, {
    body,
    failure: (error) => {
      const usual = fromServerError(error);
      if (error.code !== "NODE_ACTION_UNAVAILABLE") return usual;
      const hint = `See how it is, and what may be done, with \`svc admin nodes show ${name}\``;
      return new CliError(usual.code, usual.message, { hint, server: error });
    },
  });
  return {
    ...{ queued, action, node: { id: node.id, name: node.name, status: node.status } },
    ...(jobId !== undefined && { jobId }),
  };
}

export const renderActed =
  (done: string) =>
  (payload: NodeActed, { paint }: { paint: Paint }) =>
    `${paint("green", "✓")} ${payload.node.name} ${done}; it is ${paintStatus(paint, payload.node.status)}`;
