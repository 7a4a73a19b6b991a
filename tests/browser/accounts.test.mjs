// A new user with a wrong address, a teammate, a key, and a command-line client; and the emails about them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { PASSWORD, Person } from "./person.mjs";
import { scene, until } from "./world.mjs";

const here = scene({});

test("a new user corrects the address, invites a teammate and approves a client", { skip: here.skip }, async (t) => {
  const owner = await Person.sitsDown(t, here);
  const email = "right@example.com";
  await correctsAddress(owner, email);
  const mate = await Person.sitsDown(t, here);
  await joins(owner, mate);
  await makesKey(owner);
  await approves(owner);
  await removes(owner);
  const subjects = [];
  for (const mail of await mails()) {
    await owner.reads(mail);
    subjects.push(mail.subject.replace("Webhooks: ", ""));
  }
  assert.deepEqual([...new Set(subjects)].sort(), [
    "A command-line client signed in",
    "An API key was created",
    "Confirm your email address",
    "You are invited to join an organization",
    "You were removed from an organization",
  ]);
  t.diagnostic(`pages looked at: ${owner.seen + mate.seen}`);
});

test("the documentation", { skip: here.skip }, async (t) => {
  const person = await Person.sitsDown(t, here);
  await person.opens("/signin");
  await person.presses("link", "Documentation");
  await person.looks("the index of the documentation");
  await person.presses("link", "webhooks/create");
  await person.looks("the documentation of a call");
  await person.presses("link", "All calls");
  await person.presses("link", "deliveries/list");
  await person.looks("the documentation of a call with nested fields");
});

async function mails() {
  return (await fetch(`${here.service.mail}/messages`)).json();
}

async function correctsAddress(owner, email) {
  await owner.opens("/signin?mode=signup");
  await owner.signsUp("wrong@example.com", "Analytical Engines", "corrects");
  await owner.sees("We sent a link to wrong@example.com");
  await owner.page.getByText("Wrong address?").click();
  await owner.fills("Email", "right@localhost");
  await owner.presses("button", "Change address");
  await owner.looks("the welcome, with a mistake in the new address", 400);
  assert.equal(await owner.focused(), "Email", "the mistake has the focus");
  await owner.fills("Email", email);
  await owner.presses("button", "Change address");
  await owner.sees(`We sent a link to ${email}`);
  await owner.looks("the welcome, with another address");
  await owner.confirms("wrong@example.com");
  await owner.sees("This link is not valid");
  await owner.confirms(email);
  await owner.presses("button", "Confirm email address");
  await owner.sees("Your email address is confirmed");
  await owner.confirms(email);
  await owner.sees("Your email address is already confirmed");
  await owner.looks("a link that was used", 400);
}

async function joins(owner, mate) {
  await owner.opens("/console/team");
  assert.equal(await owner.page.getByText("Change to member").count(), 0, "the only owner remains an owner");
  await owner.fills("Email", "mate@example.com");
  await owner.presses("button", "Send invitation");
  await owner.sees("Invitation sent.");
  await owner.looks("the team with an invitation");
  const { text } = await owner.mail("mate@example.com", "/invite?");
  const [link] = /\S+\/invite\?\S+/.exec(text);
  await owner.opens(link);
  await owner.sees("is signed in");
  await owner.looks("an invitation for another person");
  await mate.opens(link);
  await mate.looks("an invitation");
  await mate.fills("Your name", "Charles Babbage");
  await mate.fills("Password", PASSWORD);
  await mate.presses("button", "Create account and join");
  await mate.sees("No endpoints yet");
  await owner.opens("/console/team");
  await owner.sees("Charles Babbage");
  await owner.looks("the team with a member");
}

async function makesKey(owner) {
  await owner.opens("/console/keys");
  await owner.fills("Name", "Build server");
  await owner.presses("button", "Create API key");
  await owner.sees("Copy the key now.");
  await owner.looks("a new key");
}

async function approves(owner) {
  const { api } = here.service;
  const call = async (name, json) => (await (await fetch(`${api}/v1/auth/${name}`, { method: "POST", body: JSON.stringify({ json }) })).json()).json;
  const { requestId, secret } = await call("cliLoginCreate", {});
  await owner.opens(`/signin?cliLoginId=${requestId}&cliLoginSecret=${secret}`);
  await owner.sees("A command-line client wants to sign in");
  const code = await owner.page.locator("dd").first().innerText();
  assert.match(code, /^[B-W]{4}-[B-W]{4}$/, "the code to compare");
  await owner.looks("the request of a client");
  await owner.page.getByLabel("I just started this sign-in myself").check();
  await owner.presses("button", "Approve sign-in");
  await owner.sees("The command-line client is signed in");
  await owner.looks("an approved client");
  await until("the client is signed in", async () => (await call("cliLoginPoll", { requestId, secret })).status === "approved");
}

async function removes(owner) {
  await owner.opens("/console/team");
  await owner.page.getByLabel("Remove: mate@example.com").click();
  await owner.presses("button", "Remove member: mate@example.com");
  await owner.sees("Member removed.");
  await owner.mail("mate@example.com", "You were removed");
}
