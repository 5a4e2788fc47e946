import {
  adminPlanReply,
  adminPlansReply,
  createPlanInput,
  deletePlanReply,
  idParams,
  updatePlanInput,
} from "@svc/proto";
import { recordAudit } from "../../http/audit.ts";
import { ApiError } from "../../http/errors.ts";
import { endpoint } from "../endpoint.ts";
import { changePlan, createPlan, removePlan } from "./change.ts";
import { getCountedPlan, listPlans } from "./store.ts";
import { adminPlanView } from "./view.ts";

const list = endpoint({
  method: "GET",
  path: "/admin/plans",
  access: "admin",
  summary: "Every plan, and how many users have it.",
  reply: adminPlansReply,
  handle: async ({ db }) => ({ plans: (await listPlans(db)).map(adminPlanView) }),
});

const create = endpoint({
  method: "POST",
  path: "/admin/plans",
  access: "admin",
  summary: "Create a plan. What is left out is as in the default plan. With isDefault it takes its place.",
  body: createPlanInput,
  status: 201,
  reply: adminPlanReply,
  errors: ["SLUG_CONFLICT", "IDEMPOTENCY_CONFLICT"],
  handle: ({ random, createOnce }, { caller, body, address, idempotencyKey }) =>
    createOnce({ caller, idempotencyKey, request: ["POST /admin/plans", body], status: 201 }, async (tx) => {
      const { id, slug, is_default } = await createPlan(tx, random.uuid(), body);
      const detail = { slug, isDefault: is_default };
      await recordAudit(tx, { caller, address, action: "plan.create", target: id, detail });
      return { plan: adminPlanView(await getCountedPlan(tx, id)) };
    }),
});

const update = endpoint({
  method: "PUT",
  path: "/admin/plans/:id",
  access: "admin",
  summary: "Change a plan. What is left out stays. Running containers get new limits without a restart.",
  params: idParams,
  body: updatePlanInput,
  reply: adminPlanReply,
  errors: ["NOT_FOUND", "SLUG_CONFLICT", "PLAN_IS_DEFAULT"],
  handle: ({ db }, { caller, params, body, address }) =>
    db.transaction().execute(async (tx) => {
      const plan = await changePlan(tx, params.id, body);
      if (plan === null) throw new ApiError("NOT_FOUND");
      const detail = { slug: plan.slug, fields: Object.keys(body) };
      await recordAudit(tx, { caller, address, action: "plan.update", target: plan.id, detail });
      return { plan: adminPlanView(await getCountedPlan(tx, plan.id)) };
    }),
});

const remove = endpoint({
  method: "DELETE",
  path: "/admin/plans/:id",
  access: "admin",
  summary: "Delete a plan that is not the default and that no user has.",
  params: idParams,
  reply: deletePlanReply,
  errors: ["NOT_FOUND", "PLAN_IS_DEFAULT", "PLAN_IN_USE"],
  handle: ({ db }, { caller, params, address }) =>
    db.transaction().execute(async (tx) => {
      const plan = await removePlan(tx, params.id);
      if (plan === null) throw new ApiError("NOT_FOUND");
      const { id, slug } = plan;
      await recordAudit(tx, { caller, address, action: "plan.delete", target: id, detail: { slug } });
      return { id };
    }),
});

export const planEndpoints = [list, create, update, remove];
