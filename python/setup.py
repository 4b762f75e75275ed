"""The wheel holds a program, so it is one of a platform; tools/packages/wheel.sh passes debian/changelog's version."""

import os

from setuptools import Distribution, setup


class WithProgram(Distribution):
    def has_ext_modules(self) -> bool:
        return True


setup(version=os.environ["STEPMARK_VERSION"], distclass=WithProgram)
