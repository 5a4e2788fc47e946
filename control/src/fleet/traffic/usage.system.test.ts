import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestApi, testApi } from "../../http/testing.ts";
import { monthOf } from "../../identity/plans/usage.ts";
import { findOwner } from "../../tenants/suspension/quota/store.ts";

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api[Symbol.asyncDispose]());

test("an account's usage is of its own sites and of this calendar month", async () => {
  const [user, other] = [await api.newUser(), await api.newUser()];
  const usage = async () => (await api.call("GET", "/account/usage", { session: user.session })).body.usage;
  expect(await usage()).toMatchObject({ monthlyRequests: 0, monthlyBandwidthMb: 0 });
  const now = new Date();
  const lastMonth = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 0));
  const counted = { requests: 7, bytes_in: 512 * 1024, bytes_out: 1024 ** 2 };
  await api.db
    .insertInto("traffic_month")
    .values([
      { user_id: user.id, month: monthOf(now), ...counted },
      { user_id: user.id, month: monthOf(lastMonth), ...counted, requests: 100 },
      { user_id: other.id, month: monthOf(now), ...counted, requests: 1000 },
    ])
    .execute();
  expect(await usage()).toMatchObject({ monthlyRequests: 7, monthlyBandwidthMb: 1.5 });
});

test("sums beyond all numbers neither end the pass over quotas nor what anybody reads", async () => {
  const admin = await api.newUser({ admin: true });
  const [user, other] = [await api.newUser({ plan: { monthly_requests: 10 } }), await api.newUser()];
  const projects = [await api.newProject(user), await api.newProject(user)];
  const now = new Date();
  const most = Number.MAX_SAFE_INTEGER;
  await api.db
    .insertInto("traffic_month")
    .values({ user_id: user.id, month: monthOf(now), requests: most, bytes_in: most, bytes_out: most })
    .execute();
  for (const { id } of projects) {
    await api.db
      .insertInto("traffic_hour")
      .values({ project_id: id, channel: "production", hour: now, requests: most, bytes_out: most })
      .execute();
  }
  const read = async (path: string, session: string) => {
    const { status, body } = await api.call("GET", path, { session });
    expect([path, status]).toEqual([path, 200]);
    return body;
  };
  expect((await read("/account/usage", user.session)).usage).toMatchObject({ monthlyRequests: most });
  expect((await read("/account/usage", other.session)).usage).toMatchObject({ monthlyRequests: 0 });
  expect((await read("/admin/stats", admin.session)).stats.requests24h).toBe(most);
  expect((await read("/admin/series", admin.session)).series.requests).toMatchObject([{ count: most, bytesOut: most }]);
  const { users } = await read("/admin/users", admin.session);
  expect(users.find(({ id }: { id: string }) => id === user.id).requests30d).toBe(most);
  expect((await read("/admin/projects", admin.session)).projects).toMatchObject([
    { requests30d: most },
    { requests30d: most },
  ]);
  expect(await findOwner(api.db, now, user.id)).toMatchObject({ use: { requests: most, bytes: most } });
});
