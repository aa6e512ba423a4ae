# SPDX-License-Identifier: Apache-2.0
"""A person at the review page, in a browser without scripts: follows links, fills in forms, keeps the cookie.

    visitor = Visitor(daemon)
    page = visitor.open("/review")
    page = visitor.submit(page.form("/review/handoffs/ID/replay"), reason="it is back")
"""

import html.parser
import re
import urllib.parse

TYPE = "application/x-www-form-urlencoded"


class Form:
    """An HTML form: where it leads, and its fields with what they hold."""

    def __init__(self, attributes):
        self.method = (attributes.get("method") or "get").upper()
        self.action = attributes.get("action") or ""
        self.fields = {}
        self.choices = {}
        self.buttons = []


class Page(html.parser.HTMLParser):
    """A page that was answered: its text, links and forms."""

    def __init__(self, reply, path):
        super().__init__(convert_charrefs=True)
        self.status, self.path, self.reply = reply.status, path, reply
        self.html = reply.text
        self.forms, self.links, self.tags, self._text = [], [], [], []
        self._select = self._area = None
        self._hidden = 0
        self.feed(self.html)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append((tag, given))
        form = self.forms[-1] if self.forms else None
        if tag == "form":
            self.forms.append(Form(given))
        elif tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "input" and form and given.get("name"):
            if given.get("type") != "checkbox" or "checked" in given:
                form.fields[given["name"]] = given.get("value", "on")
        elif tag == "select" and form:
            self._select = given["name"]
            form.choices[self._select] = []
        elif tag == "option" and form and self._select:
            value = given.get("value")
            form.choices[self._select].append(value)
            if "selected" in given or self._select not in form.fields:
                form.fields[self._select] = value or ""
        elif tag == "textarea" and form:
            self._area = given["name"]
            form.fields[self._area] = ""
        elif tag == "button" and form:
            form.buttons.append(given)
        elif tag in ("style", "script"):
            self._hidden += 1

    def handle_endtag(self, tag):
        if tag == "select":
            self._select = None
        elif tag == "textarea":
            self._area = None
        elif tag in ("style", "script"):
            self._hidden -= 1

    def handle_data(self, data):
        if self._area:
            fields = self.forms[-1].fields
            # the first line feed of a text area does not count
            fields[self._area] += data if fields[self._area] else data.removeprefix("\n")
        elif not self._hidden:
            self._text.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", "".join(self._text)).strip()

    def form(self, action, **holding):
        """The form that leads there, and holds these values."""
        found = [form for form in self.forms if form.action == action
                 and all(form.fields.get(name) == value for name, value in holding.items())]
        assert found, f"no form leads to {action} in {[form.action for form in self.forms]}: {self.text}"
        return found[0]

    def has_form(self, action):
        return any(form.action == action for form in self.forms)


class Visitor:
    def __init__(self, daemon, **headers):
        self.daemon = daemon
        self.headers = headers
        self.cookie = None

    def exchange(self, method, path, body=None, **headers):
        """One request, as a browser at this page sends it; no redirect is followed."""
        api = self.daemon.api
        sent = {"Sec-Fetch-Site": "same-origin", "Origin": api.url, **self.headers, **headers}
        if method == "GET":
            del sent["Origin"]
        if self.cookie:
            sent["Cookie"] = self.cookie
        if body is not None and "Content-Type" not in sent:
            sent["Content-Type"] = TYPE
        reply = api.request(method, path, body, {name: value for name, value in sent.items() if value is not None})
        if reply.header("Set-Cookie"):
            value = reply.header("Set-Cookie").split(";")[0]
            self.cookie = None if value.endswith("=") else value
        return reply

    def follow(self, reply, path):
        while reply.status == 303:
            path = reply.header("Location")
            reply = self.exchange("GET", path)
        return Page(reply, path)

    def open(self, path="/review"):
        return self.follow(self.exchange("GET", path), path)

    def submit(self, form, **values):
        """Sends a form with these values (as keywords, or **{"filter.target": ...})."""
        fields = {**form.fields, **values}
        body = urllib.parse.urlencode({name: value for name, value in fields.items() if value is not None})
        if form.method == "GET":
            return self.open(f"{form.action}?{body}")
        return self.follow(self.exchange("POST", form.action, body), form.action)

    def sign_in(self, token, person=""):
        page = self.open("/review/sign-in")
        return self.submit(page.form("/review/sign-in"), token=token, person=person)
