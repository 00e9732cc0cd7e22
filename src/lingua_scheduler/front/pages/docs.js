/** Everything that can be asked, made of the documents for programs. They speak English, and so does this page. */

import { html, render } from "./html.js";
import { Top } from "./shell.js";

const make = (name, text, ...inside) => {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  made.append(...inside);
  return made;
};
const dim = text => { const made = make("span", text); made.className = "dim"; return made; };
const nameOf = ref => ref.split("/").pop();
const typeOf = schema => {
  if (!schema) return "anything";
  if (schema.$ref) return nameOf(schema.$ref);
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(" | ");
  if (schema.enum) return schema.enum.map(one => JSON.stringify(one)).join(" | ");
  if (schema.type === "array") return `[${typeOf(schema.items)}]`;
  return Array.isArray(schema.type) ? schema.type.join(" | ") : schema.type || "anything";
};
const bounds = schema => [
  ["at least", schema.minimum], ["at most", schema.maximum], ["characters ≤", schema.maxLength], ["like", schema.pattern],
].filter(([, value]) => value !== undefined).map(([word, value]) => `${word} ${value}`).join(", ");
const table = (head, rows) => make("table", "",
  make("tr", "", ...head.map(one => make("th", one))),
  ...rows.map(row => make("tr", "", ...row.map(one => make("td", one)))));
const fields = (schemas, schema) => {
  const known = schema && schema.$ref ? schemas[nameOf(schema.$ref)] : schema;
  if (!known || !known.properties) return dim(typeOf(schema));
  const needed = new Set(known.required || []);
  return table(["field", "type", "", ""], Object.entries(known.properties).map(([name, one]) =>
    [name, typeOf(one), needed.has(name) ? "required" : "", one.description || bounds(one)]));
};
const sample = (schemas, schema, depth = 0) => {
  if (!schema || depth > 4) return null;
  if (schema.$ref) return sample(schemas, schemas[nameOf(schema.$ref)], depth + 1);
  if (schema.default !== undefined && schema.default !== null) return schema.default;
  if (schema.anyOf) return sample(schemas, schema.anyOf[0], depth + 1);
  if (schema.enum) return schema.enum[0];
  if (schema.properties) return Object.fromEntries((schema.required || []).map(name =>
    [name, sample(schemas, schema.properties[name], depth + 1)]));
  return { string: "…", integer: schema.minimum || 0, number: 0, boolean: false, array: [], object: {} }[schema.type] ?? null;
};
const curl = (schemas, method, path, body) => {
  const line = [`curl ${method === "get" ? "" : `-X ${method.toUpperCase()} `}${location.origin}${path}`];
  if (body) line.push(`-d '${JSON.stringify(sample(schemas, body))}'`);
  return make("pre", line.join(" \\\n  "));
};
const say = text => { const made = make("span", (text || "").replaceAll("`", "")); made.className = "says"; return made; };

const operation = (schemas, path, method, one) => {
  const verb = make("span", method.toUpperCase());
  verb.className = "method";
  const scope = one.security ? Object.values(one.security[0])[0][0] : "everybody";
  const made = make("details", "", make("summary", "", verb, make("code", path), dim(scope), say(one.summary)));
  if (one.description) made.append(make("p", one.description));
  if (one.parameters) made.append(make("h4", "Parameters"), table(["name", "in", "type", ""], one.parameters.map(given =>
    [given.name, given.in, typeOf(given.schema), given.description || bounds(given.schema)])));
  const json = one.requestBody && one.requestBody.content["application/json"];
  if (json) made.append(make("h4", "Body"), fields(schemas, json.schema));
  made.append(make("h4", "Call"), curl(schemas, method, path, json && json.schema), make("h4", "Answers"));
  for (const [status, said] of Object.entries(one.responses)) {
    const schema = said.content && said.content["application/json"] && said.content["application/json"].schema;
    made.append(make("p", "", make("b", status), ` ${said.description.replaceAll("`", "")}`));
    if (status === "200" && schema) made.append(fields(schemas, schema));
  }
  return made;
};
const socket = (api, name, channel) => {
  const made = [make("h2", channel.address), make("p", channel.description)];
  for (const action of ["receive", "send"].filter(one => api.operations[`${one}_${name}`])) {
    made.push(make("h3", action === "receive" ? "Comes in" : "Goes out"));
    for (const ref of api.operations[`${action}_${name}`].messages) {
      const message = api.components.messages[nameOf(ref.$ref)];
      made.push(make("details", "", make("summary", "", make("code", message.name), say(message.summary)),
        fields(api.components.schemas, message.payload)));
    }
  }
  return made;
};
const read = async path => (await fetch(path)).json();
const show = async () => {
  const list = document.querySelector("#list");
  const [http, sockets] = await Promise.all([read("openapi.json"), read("asyncapi.json")]);
  const byTag = new Map();
  for (const [path, methods] of Object.entries(http.paths))
    for (const [method, one] of Object.entries(methods)) {
      const tag = (one.tags || ["others"])[0];
      byTag.set(tag, [...(byTag.get(tag) || []), operation(http.components.schemas, path, method, one)]);
    }
  list.replaceChildren();
  for (const [tag, made] of byTag) list.append(make("h2", tag), ...made);
  for (const [name, channel] of Object.entries(sockets.channels)) list.append(...socket(sockets, name, channel));
};
show().catch(error => { document.querySelector("#list").textContent = `This did not work: ${error}`; });
render(html`<${Top} here="docs" isTranslated=${false} />`, document.querySelector("#top"));
